import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Base64;

/**
 * Logs in with every JDBC URL on standard input, one a line, and prints a line for each: "in", the
 * session's user and its database, or "out" and the driver's message. The values are in base64, so
 * that any name fits on the line. URLs hold passwords, so none is an argument.
 */
public class ReadURL {
    public static void main(String[] args) throws Exception {
        DriverManager.setLoginTimeout(30);
        BufferedReader urls =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String url = urls.readLine(); url != null; url = urls.readLine()) {
            System.out.println(logIn(url));
        }
    }

    private static String logIn(String url) {
        try (Connection session = DriverManager.getConnection(url);
            Statement statement = session.createStatement();
            ResultSet row = statement.executeQuery("SELECT current_user, current_database()")) {
            row.next();
            return "in " + encode(row.getString(1)) + " " + encode(row.getString(2));
        } catch (SQLException refused) {
            return "out " + encode(String.valueOf(refused.getMessage()));
        }
    }

    private static String encode(String value) {
        return Base64.getEncoder().encodeToString(value.getBytes(StandardCharsets.UTF_8));
    }
}
