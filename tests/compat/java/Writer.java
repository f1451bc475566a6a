import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer through the Java client: numbered records until its input ends. Speaks the words of writer.py. */
public final class Writer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static volatile boolean closed;

    public static void main(String[] args) throws Exception {
        JsonNode options = JSON.readTree(args[1]);
        String topic = options.get("topic").asText();
        int keys = options.get("keys").asInt();
        long paceMs = Math.round(options.get("pace_s").asDouble() * 1000);
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", args[0]);
        settings.put("delivery.timeout.ms", 180_000);
        settings.put("linger.ms", 0);
        settings.put("reconnect.backoff.max.ms", 300);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            watchInput();
            for (long number = 0; !closed; number++) {
                long sent = number;
                producer.send(
                    new ProducerRecord<>(topic, String.valueOf(number % keys), String.valueOf(number)),
                    (where, error) -> tell(sent, where, error));
                Thread.sleep(paceMs);
            }
        }
        System.exit(0);
    }

    private static void tell(long number, RecordMetadata where, Exception error) {
        if (error == null) {
            say("acked", List.of(where.partition(), where.offset(), number));
        } else {
            say("failed", error.toString());
        }
    }

    /** The end of the input is the word to finish. */
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
}
