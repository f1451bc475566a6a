import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData.ScramCredentialUpsertion;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/** Asks Kafka's own authorizer, quota manager and validations: a line of stdin is one case in JSON, a line of stdout its answer. */
public final class SecurityOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private record Caller(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "CLIENT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            JsonNode answer = switch (asked.get("kind").asText()) {
                case "acls" -> acls(asked);
                case "quotas" -> quotas(asked);
                case "buckets" -> buckets(asked);
                case "checks" -> checks(asked);
                default -> throw new IllegalArgumentException(line);
            };
            System.out.write((JSON.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static byte code(JsonNode node) {
        return (byte) node.asInt();
    }

    private static AclBinding binding(JsonNode acl) {
        return new AclBinding(
            new ResourcePattern(ResourceType.fromCode(code(acl.get(0))), acl.get(2).asText(), PatternType.fromCode(code(acl.get(1)))),
            new AccessControlEntry(
                acl.get(3).asText(),
                acl.get(4).asText(),
                AclOperation.fromCode(code(acl.get(5))),
                AclPermissionType.fromCode(code(acl.get(6)))));
    }

    private static AclBindingFilter filter(JsonNode one) {
        return new AclBindingFilter(
            new ResourcePatternFilter(ResourceType.fromCode(code(one.get(0))), text(one.get(2)), PatternType.fromCode(code(one.get(1)))),
            new AccessControlEntryFilter(
                text(one.get(3)), text(one.get(4)), AclOperation.fromCode(code(one.get(5))), AclPermissionType.fromCode(code(one.get(6)))));
    }

    private static JsonNode acls(JsonNode asked) throws Exception {
        try (StandardAuthorizer authorizer = new StandardAuthorizer(); Metrics metrics = new Metrics()) {
            StringBuilder superUsers = new StringBuilder();
            asked.get("super_users").forEach(one -> superUsers.append(one.asText()).append(';'));
            authorizer.configure(Map.of(StandardAuthorizer.SUPER_USERS_CONFIG, superUsers.toString()));
            authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
            Map<Uuid, StandardAcl> snapshot = new LinkedHashMap<>();
            Map<AclBinding, Integer> indexes = new HashMap<>();
            for (JsonNode acl : asked.get("acls")) {
                indexes.put(binding(acl), indexes.size());
                snapshot.put(Uuid.randomUuid(), StandardAcl.fromAclBinding(binding(acl)));
            }
            authorizer.loadSnapshot(snapshot);
            authorizer.completeInitialLoad();
            ObjectNode answer = JSON.createObjectNode();
            ArrayNode decisions = answer.putArray("decisions");
            for (JsonNode question : asked.get("questions")) {
                decisions.add(authorize(authorizer, question) == AuthorizationResult.ALLOWED);
            }
            ArrayNode selections = answer.putArray("selections");
            for (JsonNode one : asked.get("filters")) {
                ArrayNode selected = selections.addArray();
                authorizer.acls(filter(one)).forEach(acl -> selected.add(indexes.get(acl)));
            }
            return answer;
        }
    }

    private static AuthorizationResult authorize(StandardAuthorizer authorizer, JsonNode question) throws Exception {
        Caller caller = new Caller(SecurityUtils.parseKafkaPrincipal(question.get(0).asText()), InetAddress.getByName(question.get(1).asText()));
        AclOperation operation = AclOperation.fromCode(code(question.get(2)));
        ResourceType type = ResourceType.fromCode(code(question.get(3)));
        if (question.get(4).isNull()) {
            return authorizer.authorizeByResourceType(caller, operation, type);
        }
        ResourcePattern pattern = new ResourcePattern(type, question.get(4).asText(), PatternType.LITERAL);
        return authorizer.authorize(caller, List.of(new Action(operation, pattern, 1, false, false))).get(0);
    }

    private static JsonNode quotas(JsonNode asked) throws Exception {
        ClientQuotaManager manager =
            new ClientQuotaManager(new ClientQuotaManagerConfig(), new Metrics(), QuotaType.PRODUCE, Time.SYSTEM, "");
        for (JsonNode quota : asked.get("quotas")) {
            JsonNode entity = quota.get(0);
            manager.updateQuota(
                Optional.ofNullable(entity.get("user")).map(user -> user.isNull()
                    ? ClientQuotaManager.DEFAULT_USER_ENTITY
                    : new ClientQuotaManager.UserEntity(Sanitizer.sanitize(user.asText()))),
                Optional.ofNullable(entity.get("client-id")).map(client -> client.isNull()
                    ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID
                    : new ClientQuotaManager.ClientIdEntity(client.asText())),
                Optional.of(Quota.upperBound(quota.get(1).asDouble())));
        }
        ArrayNode throttles = JSON.createArrayNode();
        for (JsonNode event : asked.get("events")) {
            Session session =
                new Session(new KafkaPrincipal(KafkaPrincipal.USER_TYPE, event.get(0).asText()), InetAddress.getLoopbackAddress());
            throttles.add(manager.maybeRecordAndGetThrottleTimeMs(
                session, event.get(1).asText(), event.get(2).asDouble(), event.get(3).asLong()));
        }
        return throttles;
    }

    private static JsonNode buckets(JsonNode asked) {
        MetricConfig config = new MetricConfig()
            .quota(Quota.upperBound(asked.get("bound").asDouble()))
            .samples(asked.get("samples").asInt())
            .timeWindow(asked.get("window_ms").asLong(), TimeUnit.MILLISECONDS);
        TokenBucket bucket = new TokenBucket();
        ArrayNode tokens = JSON.createArrayNode();
        for (JsonNode event : asked.get("events")) {
            bucket.record(config, event.get(0).asDouble(), event.get(1).asLong());
            tokens.add(bucket.measure(config, event.get(1).asLong()));
        }
        return tokens;
    }

    private static JsonNode checks(JsonNode asked) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode acls = answer.putArray("acls");
        Method validateAcl = reached("org.apache.kafka.controller.AclControlManager", "validateNewAcl", AclBinding.class);
        for (JsonNode acl : asked.get("acls")) {
            add(acls, () -> {
                validateAcl.invoke(null, binding(acl));
                return ApiError.NONE;
            });
        }
        ArrayNode credentials = answer.putArray("credentials");
        Method validateUpsertion =
            reached("org.apache.kafka.controller.ScramControlManager", "validateUpsertion", ScramCredentialUpsertion.class);
        for (JsonNode one : asked.get("credentials")) {
            ScramCredentialUpsertion upsertion = new ScramCredentialUpsertion()
                .setName(one.get(0).asText()).setMechanism(code(one.get(1))).setIterations(one.get(2).asInt());
            add(credentials, () -> (ApiError) validateUpsertion.invoke(null, upsertion));
        }
        ArrayNode quotas = answer.putArray("quotas");
        for (JsonNode one : asked.get("quotas")) {
            add(quotas, () -> alter(one));
        }
        return answer;
    }

    private interface Check {
        ApiError run() throws Exception;
    }

    private static void add(ArrayNode answers, Check check) throws Exception {
        ApiError error;
        try {
            error = check.run();
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof ApiException)) {
                throw thrown;
            }
            error = ApiError.fromThrowable(thrown.getCause());
        }
        answers.addObject().put("code", error.error().code()).put("message", error.error() == Errors.NONE ? null : error.message());
    }

    private static Method reached(String type, String name, Class<?>... parameters) throws Exception {
        Method method = Class.forName(type).getDeclaredMethod(name, parameters);
        method.setAccessible(true);
        return method;
    }

    /** What the controller of an empty cluster answers to one alteration with one key. */
    private static ApiError alter(JsonNode asked) throws Exception {
        Map<String, String> names = new HashMap<>();
        asked.get(0).fields().forEachRemaining(part -> names.put(part.getKey(), text(part.getValue())));
        ClientQuotaEntity entity = new ClientQuotaEntity(names);
        ClientQuotaAlteration alteration = new ClientQuotaAlteration(
            entity, List.of(new ClientQuotaAlteration.Op(asked.get(1).asText(), asked.get(2).asDouble())));
        Class<?> builder = Class.forName("org.apache.kafka.controller.ClientQuotaControlManager$Builder");
        Constructor<?> made = builder.getDeclaredConstructor();
        made.setAccessible(true);
        Object manager = reached(builder.getName(), "build").invoke(made.newInstance());
        Object result = reached(manager.getClass().getName(), "alterClientQuotas", Collection.class).invoke(manager, List.of(alteration));
        Map<?, ?> errors = (Map<?, ?>) reached(result.getClass().getName(), "response").invoke(result);
        return (ApiError) errors.get(entity);
    }
}
