import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * How an object store behaves: the model of kafka_remote_client/testing/store_model.py, from the text that
 * tests/support/live_store.py makes of it.
 *
 * <p>The text has eight numbers: p50 and p99 of the seconds to the first byte, bytes per second of a connection and in total, the
 * share of late answers and by how many seconds they are late, the share of lost requests, and requests per second. For rates, 0
 * is no bound.
 */
final class StoreModel {
    enum Kind { ANSWERED, LATE, LOST, THROTTLED }

    record Answer(Kind kind, double seconds) {}

    private static final double P99 = 2.3263478740408408;

    private final String text;
    private final double[] numbers;
    private final Random random = new Random(0);
    private final ArrayDeque<Double> served = new ArrayDeque<>();
    private final AtomicInteger open = new AtomicInteger();

    StoreModel(String text) {
        this.text = text;
        this.numbers = Arrays.stream(text.strip().split(" ")).mapToDouble(Double::parseDouble).toArray();
        if (numbers.length != 8) {
            throw new IllegalArgumentException("a store model has 8 numbers: " + text);
        }
    }

    boolean isOf(String other) {
        return text.equals(other);
    }

    /** What becomes of a request at {@code now} (seconds), and how long after it. */
    synchronized Answer answer(double now) {
        double p50 = numbers[0];
        double p99 = numbers[1];
        double first = p99 > p50 ? p50 * Math.exp(random.nextGaussian() * Math.log(p99 / p50) / P99) : p50;
        double drawn = random.nextDouble();
        if (numbers[7] > 0 && exceeds(numbers[7], now)) {
            return new Answer(Kind.THROTTLED, first);
        }
        if (drawn < numbers[6]) {
            return new Answer(Kind.LOST, Double.POSITIVE_INFINITY);
        }
        if (drawn < numbers[6] + numbers[4]) {
            return new Answer(Kind.LATE, first + numbers[5]);
        }
        return new Answer(Kind.ANSWERED, first);
    }

    private boolean exceeds(double limit, double now) {
        while (!served.isEmpty() && served.peekFirst() <= now - 1) {
            served.removeFirst();
        }
        if (served.size() >= limit) {
            return true;
        }
        served.addLast(now);
        return false;
    }

    /** The same bytes, as fast as a connection brings them. */
    InputStream paced(InputStream stream) {
        if (numbers[2] <= 0 && numbers[3] <= 0) {
            return stream;
        }
        open.incrementAndGet();
        return new Paced(stream);
    }

    private double bytesPerSecond() {
        double share = numbers[3] > 0 ? numbers[3] / Math.max(1, open.get()) : Double.POSITIVE_INFINITY;
        return numbers[2] > 0 ? Math.min(numbers[2], share) : share;
    }

    static void sleep(double seconds) throws InterruptedException {
        if (seconds > 0) {
            Thread.sleep(Double.isInfinite(seconds) ? Long.MAX_VALUE : Math.round(seconds * 1000));
        }
    }

    private final class Paced extends FilterInputStream {
        private double owed;
        private boolean closed;

        Paced(InputStream stream) {
            super(stream);
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] target, int offset, int length) throws IOException {
            int count = in.read(target, offset, length);
            owed += Math.max(0, count) / bytesPerSecond();
            if (owed >= 0.001) { // no sleep is shorter
                try {
                    StoreModel.sleep(owed);
                } catch (InterruptedException e) {
                    throw new InterruptedIOException();
                }
                owed = 0;
            }
            return count;
        }

        @Override
        public void close() throws IOException {
            if (!closed) {
                closed = true;
                open.decrementAndGet();
            }
            super.close();
        }
    }

    /** Prints kind and seconds of so many answers, one millisecond apart: the text, their number. */
    public static void main(String[] arguments) {
        StoreModel model = new StoreModel(arguments[0]);
        StringBuilder lines = new StringBuilder();
        for (int number = 0; number < Integer.parseInt(arguments[1]); number++) {
            Answer answer = model.answer(number / 1000.0);
            lines.append(answer.kind()).append(' ').append(answer.seconds()).append('\n');
        }
        System.out.print(lines);
    }
}
