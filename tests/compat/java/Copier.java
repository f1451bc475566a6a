import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Consume, transform, produce, in transactions, through the Java client. Speaks the words of copier.py. */
public final class Copier {
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private final String target;

    private Copier(String bootstrap, JsonNode options) {
        target = options.get("target").asText();
        Map<String, Object> reading = new HashMap<>();
        reading.put("bootstrap.servers", bootstrap);
        reading.put("group.id", options.get("group").asText());
        reading.put("group.protocol", options.get("protocol").asText());
        if (options.get("protocol").asText().equals("classic")) {
            reading.put("session.timeout.ms", options.get("session_ms").asInt());
            reading.put("heartbeat.interval.ms", 300);
        }
        reading.put("enable.auto.commit", false);
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", 20);
        reading.put("reconnect.backoff.max.ms", 200);
        consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        Map<String, Object> writing = new HashMap<>();
        writing.put("bootstrap.servers", bootstrap);
        writing.put("transactional.id", options.get("id").asText());
        writing.put("transaction.timeout.ms", options.get("timeout_ms").asInt());
        writing.put("max.block.ms", 20_000);
        writing.put("linger.ms", 0);
        writing.put("reconnect.backoff.max.ms", 200);
        producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        consumer.subscribe(List.of(options.get("source").asText()));
    }

    public static void main(String[] args) throws IOException {
        Copier copier = new Copier(args[0], new ObjectMapper().readTree(args[1]));
        try {
            while (true) {
                int copied = copier.copySome();
                if (copied > 0) {
                    System.out.println(copied);
                    System.out.flush();
                }
            }
        } catch (KafkaException error) {
            System.err.println("cannot go on: " + error);
            System.exit(1);
        }
    }

    private int copySome() {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            return 0;
        }
        producer.beginTransaction();
        try {
            Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
            for (ConsumerRecord<String, String> one : records) {
                producer.send(new ProducerRecord<>(target, one.partition(), null, one.value()));
                positions.put(
                    new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
            }
            producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
            producer.commitTransaction();
        } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException fatal) {
            throw fatal;
        } catch (KafkaException error) {
            producer.abortTransaction();
            rewind();
            return 0;
        }
        return records.count();
    }

    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition place : consumer.assignment()) {
            OffsetAndMetadata known = committed.get(place);
            consumer.seek(place, known == null ? 0 : known.offset());
        }
    }
}
