import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One member of a consumer group through the Java client. Speaks the words of member.py; never ends by itself. */
public final class Member {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(100);

    private static void say(String name, Object value) throws IOException {
        System.out.println(JSON.writeValueAsString(Map.of(name, value)));
        System.out.flush();
    }

    public static void main(String[] args) throws IOException {
        JsonNode options = JSON.readTree(args[1]);
        boolean autoCommit = options.path("auto_commit").asBoolean(false);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings(args[0], options), new StringDeserializer(), new StringDeserializer())) {
            TreeSet<Integer> assigned = new TreeSet<>();
            consumer.subscribe(List.of(options.get("topic").asText()), new Listener(assigned));
            watchInput();
            while (!closed) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    say("read", List.of(record.partition(), record.offset(), record.value()));
                    if (!autoCommit) {
                        commit(consumer, record);
                    }
                }
            }
        }
        System.exit(0);
    }

    private static volatile boolean closed;

    /** The end of the input is the word to leave. */
    private static void watchInput() {
        Thread watcher = new Thread(() -> {
            try {
                while (System.in.read() != -1) {
                    continue;
                }
            } catch (IOException error) {
                System.err.println("the input cannot be read: " + error);
            }
            closed = true;
        });
        watcher.setDaemon(true);
        watcher.start();
    }

    private static void commit(KafkaConsumer<String, String> consumer, ConsumerRecord<String, String> record)
            throws IOException {
        TopicPartition partition = new TopicPartition(record.topic(), record.partition());
        try {
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(record.offset() + 1)));
            say("committed", Map.of(record.partition(), record.offset() + 1));
        } catch (KafkaException error) {
            say("refused", error.getClass().getSimpleName());
        }
    }

    private static Map<String, Object> settings(String bootstrap, JsonNode options) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", options.get("group").asText());
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", options.path("auto_commit").asBoolean(false));
        settings.put("auto.commit.interval.ms", 100);
        settings.put("max.poll.records", 20);
        settings.put("reconnect.backoff.max.ms", 300);
        String protocol = options.path("protocol").asText("classic");
        settings.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", options.get("session_ms").asInt());
            settings.put("heartbeat.interval.ms", 300);
            settings.put("partition.assignment.strategy", assignor(options.path("strategy").asText("range")));
        }
        if (options.has("instance")) {
            settings.put("group.instance.id", options.get("instance").asText());
        }
        return settings;
    }

    private static String assignor(String strategy) {
        String name = strategy.equals("cooperative-sticky") ? "CooperativeStickyAssignor" : "RangeAssignor";
        return "org.apache.kafka.clients.consumer." + name;
    }

    /** Tells the whole assignment whenever it changes. */
    private static final class Listener implements ConsumerRebalanceListener {
        private final TreeSet<Integer> assigned;

        Listener(TreeSet<Integer> assigned) {
            this.assigned = assigned;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(one -> assigned.remove(one.partition()));
            tell();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            partitions.forEach(one -> assigned.add(one.partition()));
            tell();
        }

        private void tell() {
            try {
                say("assigned", assigned);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
