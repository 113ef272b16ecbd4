import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.LocalTieredStorage;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * LocalTieredStorage with a latency in front of each read, as an object store would have it.
 *
 * <p>The latency in milliseconds is the text of the file that {@code rsm.config.latency.file} names; it is read anew for each
 * request, so that a benchmark changes it without a restart of the broker.
 */
public final class DelayedTieredStorage implements RemoteStorageManager {
    private final LocalTieredStorage storage = new LocalTieredStorage();
    private Path latencyFile;

    @Override
    public void configure(Map<String, ?> configs) {
        latencyFile = Path.of(String.valueOf(configs.get("latency.file")));
        storage.configure(configs);
    }

    private void delay() throws RemoteStorageException {
        try {
            Thread.sleep(Long.parseLong(Files.readString(latencyFile).strip()));
        } catch (IOException | InterruptedException e) {
            throw new RemoteStorageException("cannot delay", e);
        }
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata, LogSegmentData data)
            throws RemoteStorageException {
        return storage.copyLogSegmentData(metadata, data);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start) throws RemoteStorageException {
        delay();
        return storage.fetchLogSegment(metadata, start);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
            throws RemoteStorageException {
        delay();
        return storage.fetchLogSegment(metadata, start, end);
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type) throws RemoteStorageException {
        delay();
        return storage.fetchIndex(metadata, type);
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        storage.deleteLogSegmentData(metadata);
    }

    @Override
    public void close() throws IOException {
        storage.close();
    }
}
