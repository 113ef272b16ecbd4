package org.apache.kafka.common.utils;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The class of Kafka 4.3 that LocalTieredStorage of 4.3.1 makes its loggers with. Kafka 4.4 has it in another package.
 *
 * <p>On the class path of a 4.4 broker only, which runs with the test classes of 4.3.1. Without the prefix of each line.
 */
public final class LogContext {
    public LogContext(String prefix) {}

    public Logger logger(Class<?> type) {
        return LoggerFactory.getLogger(type);
    }
}
