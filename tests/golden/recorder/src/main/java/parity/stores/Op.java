package parity.stores;

import java.util.Map;

/** One call on a store: its name, its arguments, and the timestamp of the record being processed meanwhile. */
final class Op {
    final String name;
    final Map<String, Object> args;
    final long recordTimestamp;

    Op(final String name, final Map<String, Object> args, final long recordTimestamp) {
        this.name = name;
        this.args = args;
        this.recordTimestamp = recordTimestamp;
    }

    boolean has(final String arg) {
        return args.containsKey(arg);
    }

    String text(final String arg) {
        return (String) args.get(arg);
    }

    long number(final String arg) {
        return ((Number) args.get(arg)).longValue();
    }
}
