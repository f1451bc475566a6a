import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One member of a group with the Java client; the same arguments and lines as clients/confluent_member.py. */
public final class GroupMember implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static volatile boolean leaving = false;

    private final Set<TopicPartition> held = new HashSet<>();

    public static void main(String[] args) throws Exception {
        JsonNode asked = JSON.readTree(args[0]);
        Map<String, Object> config = new HashMap<>();
        asked.get("config").fields().forEachRemaining(one -> config.put(one.getKey(), one.getValue().asText()));
        Thread listener = new Thread(GroupMember::awaitLine);
        listener.setDaemon(true);
        listener.start();
        List<String> topics = new ArrayList<>();
        asked.get("topics").forEach(one -> topics.add(one.asText()));
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            GroupMember member = new GroupMember();
            if (topics.get(0).startsWith("^")) {
                consumer.subscribe(new SubscriptionPattern(topics.get(0).substring(1)), member);
            } else {
                consumer.subscribe(topics, member);
            }
            while (!leaving) {
                work(consumer);
            }
        }
        tell(JSON.createObjectNode().put("left", true));
    }

    private static void awaitLine() {
        try {
            System.in.read();
        } catch (IOException gone) {
            // Whoever listened to us is gone, so there is no reason to stay.
        }
        leaving = true;
    }

    private static void work(KafkaConsumer<String, String> consumer) {
        try {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            if (records.isEmpty()) {
                return;
            }
            ArrayNode seen = JSON.createArrayNode();
            for (ConsumerRecord<String, String> one : records) {
                seen.addArray().add(one.topic()).add(one.partition()).add(one.offset()).add(one.value());
            }
            tell(JSON.createObjectNode().set("records", seen));
            consumer.commitSync(Duration.ofSeconds(15));
            tell(JSON.createObjectNode().put("committed", true));
        } catch (CommitFailedException | RebalanceInProgressException | TimeoutException passing) {
            // Another member has these partitions now, or the broker is away: what is not committed is read again.
        } catch (RetriableException passing) {
            // The same.
        } catch (KafkaException error) {
            tell(JSON.createObjectNode().put("error", Errors.forException(error).name() + " " + error.getMessage()));
        }
    }

    private static synchronized void tell(JsonNode what) {
        System.out.println(what);
        System.out.flush();
    }

    private void tellHeld() {
        List<TopicPartition> sorted = new ArrayList<>(held);
        sorted.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
        ObjectNode what = JSON.createObjectNode();
        ArrayNode holds = what.putArray("holds");
        sorted.forEach(one -> holds.addArray().add(one.topic()).add(one.partition()));
        tell(what);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        held.addAll(partitions);
        tellHeld();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        held.removeAll(partitions);
        tellHeld();
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        onPartitionsRevoked(partitions);
    }
}
