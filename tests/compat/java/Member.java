import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One member of a consumer group through the Java client. Speaks the words of member.py; never ends by itself. */
public final class Member implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration COMMIT_MAX = Duration.ofSeconds(15);
    private static volatile boolean closed;

    private final KafkaConsumer<String, String> consumer;
    private final String mode;
    private final TreeSet<TopicPartition> held =
        new TreeSet<>(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));

    private Member(KafkaConsumer<String, String> consumer, JsonNode options) {
        this.consumer = consumer;
        mode = options.get("commit").asText();
        List<String> topics = new ArrayList<>();
        options.get("topics").forEach(one -> topics.add(one.asText()));
        List<TopicPartition> assigned = new ArrayList<>();
        options.path("assigned").forEach(one -> assigned.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
        if (!assigned.isEmpty()) {
            consumer.assign(assigned);
            assigned.forEach(one -> consumer.seek(one, 0));
        } else if (topics.get(0).startsWith("^")) {
            consumer.subscribe(new SubscriptionPattern(topics.get(0).substring(1)), this);
        } else {
            consumer.subscribe(topics, this);
        }
    }

    public static void main(String[] args) throws IOException {
        JsonNode options = JSON.readTree(args[1]);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings(args[0], options), new StringDeserializer(), new StringDeserializer())) {
            Member member = new Member(consumer, options);
            watchInput();
            while (!closed) {
                member.work(member.poll());
            }
        }
        System.exit(0);
    }

    /**
     * What has come. With the new protocol the client's two threads may trip over each other while a position is being
     * reset, and throw this out of poll. The records that were not handed out are still to come, which the tests count.
     */
    private ConsumerRecords<String, String> poll() {
        try {
            return consumer.poll(POLL);
        } catch (IllegalStateException error) {
            System.err.println("polling again: " + error);
            return ConsumerRecords.empty();
        }
    }

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

    private static synchronized void say(String name, Object value) {
        try {
            System.out.println(JSON.writeValueAsString(Map.of(name, value)));
            System.out.flush();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private void work(ConsumerRecords<String, String> found) {
        for (TopicPartition place : found.partitions()) {
            List<ConsumerRecord<String, String>> records = found.records(place);
            if (!mode.equals("before")) {
                tell(records);
            }
            if (!mode.equals("auto") && isCommitted(place, records) && mode.equals("before")) {
                tell(records);
            }
        }
    }

    private void tell(List<ConsumerRecord<String, String>> records) {
        for (ConsumerRecord<String, String> one : records) {
            say("read", List.of(one.topic(), one.partition(), one.offset(), one.value()));
        }
    }

    private boolean isCommitted(TopicPartition place, List<ConsumerRecord<String, String>> records) {
        long next = records.get(records.size() - 1).offset() + 1;
        try {
            consumer.commitSync(Map.of(place, new OffsetAndMetadata(next)), COMMIT_MAX);
        } catch (KafkaException error) {
            say("refused", error.getClass().getSimpleName());
            return false;
        }
        say("committed", List.of(place.topic(), place.partition(), next));
        return true;
    }

    private static Map<String, Object> settings(String bootstrap, JsonNode options) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", options.get("group").asText());
        settings.put("auto.offset.reset", options.get("reset").asText());
        boolean isAutomatic = options.get("commit").asText().equals("auto");
        settings.put("enable.auto.commit", isAutomatic && !options.has("assigned"));
        settings.put("auto.commit.interval.ms", 100);
        settings.put("max.poll.records", 20);
        settings.put("reconnect.backoff.max.ms", 300);
        String protocol = options.get("protocol").asText();
        settings.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", options.get("session_ms").asInt());
            settings.put("heartbeat.interval.ms", 300);
            settings.put("partition.assignment.strategy", assignor(options.path("strategy").asText("range")));
        }
        putIfGiven(settings, "group.remote.assignor", options.path("remote_assignor"));
        putIfGiven(settings, "group.instance.id", options.path("instance"));
        putIfGiven(settings, "client.id", options.path("client_id"));
        putIfGiven(settings, "metadata.max.age.ms", options.path("metadata_age_ms"));
        return settings;
    }

    private static void putIfGiven(Map<String, Object> settings, String name, JsonNode value) {
        if (!value.isMissingNode()) {
            settings.put(name, value.asText());
        }
    }

    private static String assignor(String strategy) {
        String name = strategy.equals("cooperative-sticky") ? "CooperativeStickyAssignor" : "RangeAssignor";
        return "org.apache.kafka.clients.consumer." + name;
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        held.removeAll(partitions);
        tellHeld();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        held.addAll(partitions);
        tellHeld();
    }

    private void tellHeld() {
        say("holds", held.stream().map(one -> List.of(one.topic(), one.partition())).toList());
    }
}
