import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** A transactional producer through the Java client. Speaks the words of transactor.py. */
public final class Transactor {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final KafkaProducer<String, String> producer;

    private Transactor(String bootstrap, JsonNode options) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", options.get("id").asText());
        settings.put("transaction.timeout.ms", options.get("timeout_ms").asInt());
        settings.put("max.block.ms", 20_000);
        settings.put("delivery.timeout.ms", 20_000);
        settings.put("request.timeout.ms", 10_000);
        settings.put("linger.ms", 0);
        producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    public static void main(String[] args) throws IOException {
        Transactor transactor = new Transactor(args[0], JSON.readTree(args[1]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(transactor.answer(JSON.readTree(line))));
            System.out.flush();
        }
        System.exit(0);
    }

    private Map<String, Object> answer(JsonNode request) {
        Map<String, Object> answer = new HashMap<>();
        try {
            answer.put("ok", run(request));
        } catch (ExecutionException failed) {
            refuse(answer, failed.getCause());
        } catch (Exception failed) {
            refuse(answer, failed);
        }
        return answer;
    }

    private static void refuse(Map<String, Object> answer, Throwable cause) {
        answer.put("refused", cause.getClass().getSimpleName());
        answer.put("detail", cause.toString());
    }

    private Object run(JsonNode request) throws Exception {
        switch (request.get("op").asText()) {
            case "init": producer.initTransactions(); return null;
            case "begin": producer.beginTransaction(); return null;
            case "send": return send(request);
            case "offsets": offsets(request); return null;
            case "commit": producer.commitTransaction(); return null;
            case "abort": producer.abortTransaction(); return null;
            default: throw new IllegalArgumentException(request.get("op").asText());
        }
    }

    private List<Long> send(JsonNode request) throws Exception {
        List<Future<RecordMetadata>> pending = new ArrayList<>();
        for (JsonNode value : request.get("values")) {
            pending.add(producer.send(new ProducerRecord<>(
                request.get("topic").asText(), request.get("partition").asInt(), null, value.asText())));
        }
        producer.flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> one : pending) {
            offsets.add(one.get().offset());
        }
        return offsets;
    }

    private void offsets(JsonNode request) {
        TopicPartition place = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        producer.sendOffsetsToTransaction(
            Map.of(place, new OffsetAndMetadata(request.get("offset").asLong())),
            new ConsumerGroupMetadata(request.get("group").asText()));
    }
}
