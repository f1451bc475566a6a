import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions with many small batches in flight, through the Java client: what pipeliner.py says for confluent-kafka. */
public final class Pipeliner {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        Map<String, Object> answer = new HashMap<>();
        try {
            answer.put("ok", run(args[0], JSON.readTree(args[1])));
        } catch (Exception failed) {
            answer.put("refused", failed.toString());
        }
        System.out.println(JSON.writeValueAsString(answer));
        System.exit(0);
    }

    private static int run(String bootstrap, JsonNode asked) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", asked.get("id").asText());
        settings.put("max.in.flight.requests.per.connection", 5);
        int sent = 0;
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int number = 0; number < asked.get("transactions").asInt(); number++) {
                List<Future<RecordMetadata>> pending = new ArrayList<>();
                producer.beginTransaction();
                for (int at = 0; at < asked.get("records").asInt(); at++, sent++) {
                    pending.add(producer.send(new ProducerRecord<>(
                        asked.get("topic").asText(), String.format("%0100d", sent))));
                }
                producer.commitTransaction();
                for (Future<RecordMetadata> one : pending) {
                    one.get();
                }
            }
        }
        return sent;
    }
}
