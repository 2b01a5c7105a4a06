import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/**
 * Curator's lock and leader latch, moved by lines on standard input; what happens is told on standard output.
 *
 * <pre>
 *   lock NAME       a client NAME takes the lock             -> NAME locked
 *   unlock NAME     it gives the lock back                   -> NAME unlocked
 *   latch NAME      a client NAME wants to lead              -> NAME leads, NAME follows
 *   unlatch NAME    it gives up                              -> NAME left
 *   write NAME      it adds a node beside the lock           -> NAME wrote
 *   count NAME      how many nodes were added                -> NAME counts N
 * </pre>
 *
 * Changes of a client's connection are told as "NAME SUSPENDED" and so on, and "BOTH" whenever two clients hold the
 * lock, or lead, at the same moment.
 */
public class Recipes {
    private static final Map<String, Client> clients = new HashMap<>();
    private static volatile String holder = null;

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static synchronized void takes(String name) {
        if (holder != null && !holder.equals(name)) {
            say("BOTH " + holder + " " + name);
        }
        holder = name;
    }

    private static synchronized void leaves(String name) {
        if (name.equals(holder)) {
            holder = null;
        }
    }

    private static final class Client {
        final String name;
        final CuratorFramework framework;
        final InterProcessMutex mutex;
        final LeaderLatch latch;
        // A mutex belongs to a thread, so each client has one of its own.
        final ExecutorService thread = Executors.newSingleThreadExecutor();

        Client(String name, String hosts) {
            this.name = name;
            framework = CuratorFrameworkFactory.newClient(hosts, 40_000, 15_000, new RetryForever(100));
            framework.getConnectionStateListenable().addListener((client, state) -> say(name + " " + state));
            framework.start();
            mutex = new InterProcessMutex(framework, "/recipes/lock");
            latch = new LeaderLatch(framework, "/recipes/latch", name);
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    takes(name);
                    say(name + " leads");
                }

                @Override
                public void notLeader() {
                    leaves(name);
                    say(name + " follows");
                }
            });
        }

        void run(String command) throws Exception {
            switch (command) {
                case "lock":
                    mutex.acquire();
                    takes(name);
                    say(name + " locked");
                    break;
                case "unlock":
                    leaves(name);
                    mutex.release();
                    say(name + " unlocked");
                    break;
                case "latch":
                    latch.start();
                    break;
                case "unlatch":
                    leaves(name);
                    latch.close();
                    say(name + " left");
                    break;
                case "write":
                    framework.create().creatingParentsIfNeeded().forPath("/recipes/writes/" + System.nanoTime());
                    say(name + " wrote");
                    break;
                case "count":
                    framework.sync().forPath("/recipes/writes");
                    say(name + " counts " + framework.getChildren().forPath("/recipes/writes").size());
                    break;
                default:
                    say("unknown " + command);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        String hosts = arguments[0];
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            Client client = clients.computeIfAbsent(words[1], name -> new Client(name, hosts));
            client.thread.submit(() -> {
                try {
                    client.run(words[0]);
                } catch (Throwable error) {
                    say(client.name + " failed " + error);
                }
            });
        }
        System.exit(0);
    }
}
