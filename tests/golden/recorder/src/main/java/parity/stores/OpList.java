package parity.stores;

import java.util.ArrayList;
import java.util.List;

/** A named sequence of operations, written by hand or drawn at random. */
final class OpList {
    final String name;
    final String about;
    final List<Op> ops = new ArrayList<>();
    private long recordTimestamp = 1_000;

    OpList(final String name, final String about) {
        this.name = name;
        this.about = about;
    }

    /** Sets the timestamp of the record under which the following operations run. */
    OpList at(final long timestamp) {
        recordTimestamp = timestamp;
        return this;
    }

    OpList op(final String op, final Object... args) {
        ops.add(new Op(op, Json.obj(args), recordTimestamp));
        return this;
    }
}
