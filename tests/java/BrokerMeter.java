import java.util.Set;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints "topic count" for each meter that a JMX name pattern finds. Arguments: service URL, pattern. */
public final class BrokerMeter {
    private BrokerMeter() {}

    public static void main(String[] args) throws Exception {
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(args[0]))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            Set<ObjectName> names = server.queryNames(new ObjectName(args[1]), null);
            for (ObjectName name : names) {
                String topic = name.getKeyProperty("topic");
                System.out.println((topic == null ? "*" : topic) + " " + server.getAttribute(name, "Count"));
            }
        }
    }
}
