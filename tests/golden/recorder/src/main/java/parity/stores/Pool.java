package parity.stores;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/** Input values for format vectors: a few corners, then values drawn from the seed. */
final class Pool {
    private static final String[] ALPHABETS = {
        "abcdefghijklmnopqrstuvwxyz", "ABCXYZ0123456789-_. ", "\u00e4\u00f6\u00fc\u00df\u00e9\u00f1", "\u4e16\u754c\u6c34\u706b",
        "\u0430\u0431\u0432\u0433", "\ud83d\ude00\ud83d\ude80\ud83c\udf89", "\u0000\u0001\u007f\ue000\uffee"
    };

    final Random random;

    Pool(final long seed) {
        random = new Random(seed * 7_919);
    }

    String text(final int most) {
        final StringBuilder out = new StringBuilder();
        final String alphabet = ALPHABETS[random.nextInt(100) < 55 ? random.nextInt(2) : random.nextInt(ALPHABETS.length)];
        final int[] points = alphabet.codePoints().toArray();
        for (int i = random.nextInt(most) + 1; i > 0; i--) {
            out.appendCodePoint(points[random.nextInt(points.length)]);
        }
        return out.toString();
    }

    List<String> texts(final int count) {
        final List<String> out = new ArrayList<>(List.of("", "a"));
        while (out.size() < count) {
            out.add(text(12));
        }
        return out;
    }

    byte[] bytes(final int most) {
        final byte[] out = new byte[random.nextInt(most + 1)];
        random.nextBytes(out);
        return out;
    }

    List<byte[]> byteArrays(final int count) {
        final List<byte[]> out = new ArrayList<>(List.of(new byte[0], new byte[] {0}, new byte[] {(byte) 0xff}));
        while (out.size() < count) {
            out.add(bytes(24));
        }
        return out;
    }

    List<Long> longs(final int count) {
        final List<Long> out = new ArrayList<>(Arrays.asList(0L, 1L, -1L, Long.MAX_VALUE, Long.MIN_VALUE));
        while (out.size() < count) {
            out.add(random.nextBoolean() ? random.nextLong() : random.nextInt(100_000) - 50_000L);
        }
        return out;
    }

    long timestamp() {
        switch (random.nextInt(5)) {
            case 0:
                return 0;
            case 1:
                return random.nextInt(1_000);
            case 2:
                return Long.MAX_VALUE - random.nextInt(3);
            default:
                return 1_600_000_000_000L + random.nextInt(Integer.MAX_VALUE);
        }
    }

    /** Name and value (hex, or null) pairs. */
    List<Object> headers() {
        final List<Object> out = new ArrayList<>();
        for (int i = random.nextInt(4); i > 0; i--) {
            out.add(Json.list(random.nextInt(4) == 0 ? "h" : text(6), random.nextInt(5) == 0 ? null : Json.hex(bytes(6))));
        }
        return out;
    }
}
