import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;

/**
 * Writes record batches of every magic, codec and timestamp type with Kafka's own builder, and what Kafka's own reader makes of
 * them, one JSON object a line. Needs kafka-clients 3.9, the last that can still write magic 0 and 1:
 * java -cp "lib/*" tests/golden/java/RecordVectors.java | gzip -9n > tests/golden/record-vectors.jsonl.gz
 */
public class RecordVectors {
    static String text(ByteBuffer data) {
        if (data == null) return "null";
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        return '"' + Base64.getEncoder().encodeToString(bytes) + '"';
    }

    static String quoted(byte[] data) {
        return data == null ? "null" : '"' + Base64.getEncoder().encodeToString(data) + '"';
    }

    public static void main(String[] args) {
        for (byte magic = 0; magic <= 2; magic++)
            for (CompressionType codec : CompressionType.values())
                for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME})
                    for (long base : new long[] {0, 1234567})
                        for (int count : new int[] {1, 5, 200}) {
                            if (magic < 2 && codec == CompressionType.ZSTD) continue;
                            if (magic == 0 && type == TimestampType.LOG_APPEND_TIME) continue;
                            write(magic, codec, type, base, count);
                        }
    }

    static void write(byte magic, CompressionType codec, TimestampType type, long base, int count) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1 << 20), magic, Compression.of(codec).build(), magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : type, base,
            1700000099000L);
        for (int i = 0; i < count; i++) {
            byte[] key = i % 4 == 0 ? null : ("key" + i).getBytes();
            byte[] value = i % 7 == 3 ? null : ("value " + i + " ").repeat(i % 9).getBytes();
            Header[] headers = new Header[magic == 2 ? i % 3 : 0];
            for (int h = 0; h < headers.length; h++) headers[h] = new RecordHeader("naïve" + h, h == 1 ? null : new byte[] {(byte) i});
            long timestamp = magic == 0 ? -1 : 1700000000000L + i * 10 - i % 5 * 100;
            builder.append(timestamp, key, value, headers);
        }
        MemoryRecords records = builder.build();
        ByteBuffer raw = records.buffer();
        StringBuilder out = new StringBuilder("{\"magic\": " + magic + ", \"codec\": \"" + codec.name + "\", \"batches\": " + text(raw) + ", \"records\": [");
        String comma = "";
        for (MutableRecordBatch batch : records.batches())
            for (Record record : batch) {
                out.append(comma).append("[" + record.offset() + ", " + record.timestamp() + ", " + batch.timestampType().id + ", "
                    + text(record.key()) + ", " + text(record.value()) + ", [");
                String inner = "";
                for (Header header : record.headers()) {
                    out.append(inner).append("[\"" + header.key() + "\", " + quoted(header.value()) + "]");
                    inner = ", ";
                }
                out.append("]]");
                comma = ", ";
            }
        System.out.println(out.append("]}"));
    }
}
