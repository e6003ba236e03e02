package parity;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;

/** One topology, the topics it reads and writes, and what is piped through it. */
final class Case {
    static final String DEFAULT_STORE = "default.dsl.store";

    final String name;
    final String group;
    final Class<?> declaredIn;
    String description = "";
    final List<String> uses = new ArrayList<>();
    final List<Integer> conformance = new ArrayList<>();
    final Map<String, Object> config = new LinkedHashMap<>();
    final Map<String, Type[]> inputs = new LinkedHashMap<>();
    final Map<String, Type[]> outputs = new LinkedHashMap<>();
    final Map<String, Script> scenarios = new LinkedHashMap<>();
    boolean topologyConfig;
    boolean failsToBuild;
    boolean mayFailToBuild;
    /** What stands in the trace in place of the topology's Java text; null if that does. */
    String text;
    Gen random;
    private Consumer<StreamsBuilder> dsl;
    private Supplier<Topology> papi;

    Case(final Class<?> declaredIn, final String name, final String group) {
        this.declaredIn = declaredIn;
        this.name = name;
        this.group = group;
    }

    Case desc(final String text) {
        description = text;
        return this;
    }

    /** Items of the conformance list that the case shows. */
    Case conf(final int... items) {
        for (final int i : items) {
            conformance.add(i);
        }
        return this;
    }

    Case config(final String key, final Object value) {
        config.put(key, value);
        return this;
    }

    /** Build with new StreamsBuilder(new TopologyConfig(config)), which the dsl.store.* configs need. */
    Case withTopologyConfig() {
        topologyConfig = true;
        return this;
    }

    Case in(final String topic, final Type key, final Type value) {
        inputs.put(topic, new Type[] {key, value});
        return this;
    }

    Case out(final String topic, final Type key, final Type value) {
        outputs.put(topic, new Type[] {key, value});
        return this;
    }

    Case in(final String... topics) {
        for (final String t : topics) {
            in(t, Type.STRING, Type.STRING);
        }
        return this;
    }

    Case out(final String... topics) {
        for (final String t : topics) {
            out(t, Type.STRING, Type.STRING);
        }
        return this;
    }

    /** A class of the same source file whose text belongs to the topology. */
    Case uses(final String className) {
        uses.add(className);
        return this;
    }

    Case topology(final Consumer<StreamsBuilder> build) {
        dsl = build;
        return this;
    }

    Case papi(final Supplier<Topology> build) {
        papi = build;
        return this;
    }

    Case scenario(final String title, final Consumer<Script> write) {
        final Script s = new Script();
        write.accept(s);
        scenarios.put(title, s);
        return this;
    }

    Case random(final Gen gen) {
        random = gen;
        return this;
    }

    /** Building the topology throws; the trace records what. */
    Case failsToBuild() {
        failsToBuild = true;
        return this;
    }

    /** Building the topology may throw; the trace records it then. */
    Case mayFailToBuild() {
        mayFailToBuild = true;
        return this;
    }

    /** Whether it runs, and the configuration says where stores are that it does not supply itself. */
    boolean leavesStoresToConfig() {
        return dsl != null && !failsToBuild && !(scenarios.isEmpty() && random == null)
            && !config.containsKey(DEFAULT_STORE) && !config.containsKey(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG);
    }

    Topology build(final Properties props) {
        if (papi != null) {
            return papi.get();
        }
        final StreamsBuilder b = topologyConfig ? new StreamsBuilder(new TopologyConfig(new StreamsConfig(props))) : new StreamsBuilder();
        dsl.accept(b);
        return b.build(props);
    }
}
