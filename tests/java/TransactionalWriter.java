import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes transactions with Java's own producer: even ones commit, odd ones abort.
 *
 * <p>Arguments: bootstrap servers, topic, partition, transactional id, transactions, records in each, bytes of a value.
 */
public final class TransactionalWriter {
    private TransactionalWriter() {}

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("transactional.id", args[3]);
        properties.put("max.block.ms", "30000");
        int partition = Integer.parseInt(args[2]);
        int transactions = Integer.parseInt(args[4]);
        int records = Integer.parseInt(args[5]);
        int size = Integer.parseInt(args[6]);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (int transaction = 0; transaction < transactions; transaction++) {
                producer.beginTransaction();
                for (int record = 0; record < records; record++) {
                    String key = args[3] + "-" + transaction + "-" + record;
                    byte[] value = String.format("%-" + size + "s", key).getBytes(StandardCharsets.UTF_8);
                    producer.send(new ProducerRecord<>(args[1], partition, key.getBytes(StandardCharsets.UTF_8), value));
                }
                producer.flush();
                if (transaction % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }
}
