import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client behind JSON lines: one request per line on stdin, one answer per line on stdout.
 * Never decides what is right: it reports what the client library saw, and errors by Kafka's name.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long WAIT_MS = 20_000;
    private static final int FETCH_WAIT_MS = 40_000;

    private final String bootstrap;
    private final Admin admin;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
        Map<String, Object> settings = base();
        settings.put("default.api.timeout.ms", (int) WAIT_MS);
        settings.put("request.timeout.ms", 10_000);
        this.admin = Admin.create(settings);
    }

    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Driver driver = new Driver(args[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(driver.answer(JSON.readTree(line))));
        }
        driver.close();
    }

    private ObjectNode answer(JsonNode request) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            answer.set("ok", run(request.get("op").asText(), request));
        } catch (ExecutionException failed) {
            refuse(answer, failed.getCause());
        } catch (Exception failed) {
            refuse(answer, failed);
        }
        return answer;
    }

    private static void refuse(ObjectNode answer, Throwable cause) {
        boolean fromBroker = cause instanceof KafkaException;
        answer.put(fromBroker ? "refused" : "failed", fromBroker ? Errors.forException(cause).name() : "");
        answer.put("detail", cause.toString());
    }

    private JsonNode run(String op, JsonNode in) throws Exception {
        switch (op) {
            case "produce": return produce(in);
            case "fetch": return fetch(in);
            case "offset_of": return offsetOf(in);
            case "partitions_of": return JSON.valueToTree(described(in).partitions().size());
            case "topic_id": return JSON.valueToTree(described(in).topicId().toString());
            case "name_of": return nameOf(in);
            case "create_topic": return createTopic(in);
            case "delete_topic": return done(admin.deleteTopics(List.of(topic(in))).all());
            case "add_partitions": return done(admin.createPartitions(
                Map.of(topic(in), NewPartitions.increaseTo(in.get("total").asInt()))).all());
            case "delete_records": return deleteRecords(in);
            case "topic_configs": return configs(new ConfigResource(ConfigResource.Type.TOPIC, topic(in)));
            case "broker_configs": return configs(new ConfigResource(
                ConfigResource.Type.BROKER, wait(admin.describeCluster().nodes()).iterator().next().idString()));
            case "change_configs": return changeConfigs(in);
            case "cluster": return cluster();
            case "log_dirs": return logDirs();
            default: throw new IllegalArgumentException("no such op: " + op);
        }
    }

    private Map<String, Object> base() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", "compat-java");
        return settings;
    }

    private JsonNode produce(JsonNode in) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(
            in.get("acks").asText(), in.get("codec").asText(), in.get("idempotent").asBoolean());
        List<Future<RecordMetadata>> pending = new ArrayList<>();
        for (JsonNode sent : in.get("records")) {
            Long timestamp = sent.get("timestamp_ms").isNull() ? null : sent.get("timestamp_ms").asLong();
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                topic(in), in.get("partition").asInt(), timestamp, bytes(sent.get("key")), bytes(sent.get("value")));
            for (JsonNode header : sent.get("headers")) {
                record.headers().add(header.get(0).asText(), bytes(header.get(1)));
            }
            pending.add(producer.send(record));
        }
        producer.flush();
        ArrayNode offsets = JSON.createArrayNode();
        for (Future<RecordMetadata> future : pending) {
            RecordMetadata stored = wait(future);
            offsets.add(stored.hasOffset() ? stored.offset() : -1);
        }
        return offsets;
    }

    private KafkaProducer<byte[], byte[]> producer(String acks, String codec, boolean idempotent) {
        return producers.computeIfAbsent(acks + "/" + codec + "/" + idempotent, name -> {
            Map<String, Object> settings = base();
            settings.put("acks", acks);
            settings.put("compression.type", codec);
            settings.put("enable.idempotence", idempotent);
            settings.put("linger.ms", 20);
            settings.put("batch.size", 1_000_000);
            settings.put("max.request.size", 4_000_000);
            settings.put("request.timeout.ms", 10_000);
            settings.put("delivery.timeout.ms", 15_000);
            settings.put("max.block.ms", 10_000);
            return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        });
    }

    private JsonNode fetch(JsonNode in) throws Exception {
        Map<String, Object> settings = base();
        settings.put("fetch.max.wait.ms", FETCH_WAIT_MS);
        settings.put("request.timeout.ms", 60_000);
        settings.put("auto.offset.reset", "none");
        settings.put("enable.auto.commit", false);
        settings.put("allow.auto.create.topics", false);
        TopicPartition place = new TopicPartition(topic(in), in.get("partition").asInt());
        int count = in.get("count").asInt();
        ArrayNode got = JSON.createArrayNode();
        long deadline = System.currentTimeMillis() + WAIT_MS;
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
            settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        try {
            consumer.assign(List.of(place));
            consumer.seek(place, in.get("offset").asLong());
            while (got.size() < count) {
                long left = deadline - System.currentTimeMillis();
                if (left <= 0) {
                    throw new TimeoutException(got.size() + " of " + count + " records of " + place);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(left))) {
                    if (got.size() < count) {
                        got.add(got(record));
                    }
                }
            }
        } finally {
            // The next fetch is already parked in the broker: do not wait for it.
            consumer.close(CloseOptions.timeout(Duration.ZERO));
        }
        return got;
    }

    private static ObjectNode got(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode out = JSON.createObjectNode();
        out.put("offset", record.offset());
        out.set("key", text(record.key()));
        out.set("value", text(record.value()));
        ArrayNode headers = out.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        out.put("timestamp_ms", record.timestamp());
        out.put("timestamp_kind", record.timestampType() == TimestampType.LOG_APPEND_TIME ? "append" : "create");
        return out;
    }

    private JsonNode offsetOf(JsonNode in) throws Exception {
        TopicPartition place = new TopicPartition(topic(in), in.get("partition").asInt());
        JsonNode spec = in.get("spec");
        OffsetSpec wanted;
        switch (spec.asText()) {
            case "earliest": wanted = OffsetSpec.earliest(); break;
            case "latest": wanted = OffsetSpec.latest(); break;
            case "max_timestamp": wanted = OffsetSpec.maxTimestamp(); break;
            default: wanted = OffsetSpec.forTimestamp(spec.asLong());
        }
        return JSON.valueToTree(wait(admin.listOffsets(Map.of(place, wanted)).partitionResult(place)).offset());
    }

    private TopicDescription described(JsonNode in) throws Exception {
        return wait(admin.describeTopics(List.of(topic(in))).topicNameValues().get(topic(in)));
    }

    private JsonNode nameOf(JsonNode in) throws Exception {
        Uuid id = Uuid.fromString(in.get("topic_id").asText());
        Collection<Uuid> wanted = List.of(id);
        return JSON.valueToTree(
            wait(admin.describeTopics(TopicCollection.ofTopicIds(wanted)).topicIdValues().get(id)).name());
    }

    private JsonNode createTopic(JsonNode in) throws Exception {
        int partitions = in.get("partitions").asInt();
        int replicas = in.get("replicas").asInt();
        NewTopic created = new NewTopic(
            topic(in),
            partitions < 0 ? Optional.empty() : Optional.of(partitions),
            replicas < 0 ? Optional.empty() : Optional.of((short) replicas));
        Map<String, String> configs = new HashMap<>();
        in.get("configs").fields().forEachRemaining(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        return done(admin.createTopics(List.of(created.configs(configs))).all());
    }

    private JsonNode deleteRecords(JsonNode in) throws Exception {
        TopicPartition place = new TopicPartition(topic(in), in.get("partition").asInt());
        RecordsToDelete before = RecordsToDelete.beforeOffset(in.get("before").asLong());
        return JSON.valueToTree(
            wait(admin.deleteRecords(Map.of(place, before)).lowWatermarks().get(place)).lowWatermark());
    }

    private JsonNode configs(ConfigResource resource) throws Exception {
        Config config = wait(admin.describeConfigs(List.of(resource)).values().get(resource));
        ObjectNode out = JSON.createObjectNode();
        for (ConfigEntry entry : config.entries()) {
            out.put(entry.name(), entry.value());
        }
        return out;
    }

    private JsonNode changeConfigs(JsonNode in) throws Exception {
        List<AlterConfigOp> steps = new ArrayList<>();
        in.get("changes").fields().forEachRemaining(entry -> {
            boolean delete = entry.getValue().isNull();
            steps.add(new AlterConfigOp(
                new ConfigEntry(entry.getKey(), delete ? null : entry.getValue().asText()),
                delete ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET));
        });
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(in));
        return done(admin.incrementalAlterConfigs(Map.of(resource, steps)).all());
    }

    private JsonNode cluster() throws Exception {
        var described = admin.describeCluster();
        ObjectNode out = JSON.createObjectNode();
        out.put("cluster_id", wait(described.clusterId()));
        out.put("controller_id", wait(described.controller()).id());
        ArrayNode brokers = out.putArray("brokers");
        for (Node node : wait(described.nodes())) {
            brokers.addArray().add(node.id()).add(node.host()).add(node.port());
        }
        return out;
    }

    private JsonNode logDirs() throws Exception {
        List<Integer> ids = new ArrayList<>();
        wait(admin.describeCluster().nodes()).forEach(node -> ids.add(node.id()));
        ArrayNode out = JSON.createArrayNode();
        wait(admin.describeLogDirs(ids).allDescriptions()).values().forEach(dirs -> dirs.values().forEach(dir ->
            dir.replicaInfos().forEach((place, replica) ->
                out.addArray().add(place.topic()).add(place.partition()).add(replica.size()))));
        return out;
    }

    private static <T> T wait(Future<T> future) throws Exception {
        return future.get(WAIT_MS, TimeUnit.MILLISECONDS);
    }

    private static JsonNode done(Future<Void> future) throws Exception {
        wait(future);
        return JSON.nullNode();
    }

    private static String topic(JsonNode in) {
        return in.get("topic").asText();
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static JsonNode text(byte[] bytes) {
        return JSON.valueToTree(bytes == null ? null : Base64.getEncoder().encodeToString(bytes));
    }

    private void close() {
        producers.values().forEach(producer -> producer.close(Duration.ofSeconds(5)));
        admin.close(Duration.ofSeconds(5));
    }
}
