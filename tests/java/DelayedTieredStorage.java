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
 * LocalTieredStorage whose reads take as long as an object store would, and fail as one would.
 *
 * <p>The file that {@code rsm.config.model.file} names has the text of a {@link StoreModel}; it is read anew for each request, so
 * that a benchmark changes it without a restart of the broker. A lost request ends when the broker gives it up.
 */
public final class DelayedTieredStorage implements RemoteStorageManager {
    private final LocalTieredStorage storage = new LocalTieredStorage();
    private Path modelFile;
    private StoreModel model;

    @Override
    public void configure(Map<String, ?> configs) {
        modelFile = Path.of(String.valueOf(configs.get("model.file")));
        storage.configure(configs);
    }

    private synchronized StoreModel model() throws IOException {
        String text = Files.readString(modelFile);
        if (model == null || !model.isOf(text)) {
            model = new StoreModel(text);
        }
        return model;
    }

    private StoreModel request() throws RemoteStorageException {
        StoreModel.Answer answer;
        StoreModel asked;
        try {
            asked = model();
            answer = asked.answer(System.nanoTime() / 1e9);
            StoreModel.sleep(answer.seconds());
        } catch (IOException | InterruptedException e) {
            throw new RemoteStorageException("cannot delay", e);
        }
        if (answer.kind() == StoreModel.Kind.THROTTLED) {
            throw new RemoteStorageException("the store answers 503: the model's request rate is exceeded");
        }
        return asked;
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata, LogSegmentData data)
            throws RemoteStorageException {
        return storage.copyLogSegmentData(metadata, data);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start) throws RemoteStorageException {
        return request().paced(storage.fetchLogSegment(metadata, start));
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
            throws RemoteStorageException {
        return request().paced(storage.fetchLogSegment(metadata, start, end));
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type) throws RemoteStorageException {
        return request().paced(storage.fetchIndex(metadata, type));
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
