import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's command-line tools one after the other in one machine: a line of stdin is one, its words apart by tabs. */
public final class Tools {
    /** Stands for the end of a tool. A tool that catches it and ends again has ended the first time. */
    private static final class Ended extends Error {
        final int code;
        final int length;

        Ended(int code, int length) {
            this.code = code;
            this.length = length;
        }
    }

    private static ByteArrayOutputStream said = new ByteArrayOutputStream();
    private static Ended first;

    public static void main(String[] arguments) throws Exception {
        Exit.Procedure end = (code, message) -> {
            Ended ended = new Ended(code, said.size());
            first = first == null ? ended : first;
            throw ended;
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        PrintStream out = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            said = new ByteArrayOutputStream();
            first = null;
            PrintStream both = new PrintStream(said, true);
            System.setOut(both);
            System.setErr(both);
            int code = run(words, both);
            int length = first == null ? said.size() : first.length;
            out.print("\u0001" + code + "\n" + said.toString().substring(0, length));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String[] words, PrintStream said) throws Exception {
        Object arguments = Arrays.copyOfRange(words, 1, words.length);
        try {
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            if (first != null) {
                return first.code;
            }
            thrown.getCause().printStackTrace(said);
            return 99;
        }
    }
}
