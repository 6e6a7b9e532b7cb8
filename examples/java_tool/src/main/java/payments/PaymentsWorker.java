package payments;

import io.temporal.client.WorkflowClient;
import io.temporal.serviceclient.WorkflowServiceStubs;
import io.temporal.serviceclient.WorkflowServiceStubsOptions;
import io.temporal.worker.WorkerFactory;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/** The payments team's worker: its activity, on its task queue. No dependency on Holdfast. */
final class PaymentsWorker {
  public static void main(String[] arguments) {
    var address = System.getenv().getOrDefault("TEMPORAL_ADDRESS", "127.0.0.1:7233");
    var ledger = Path.of(System.getenv().getOrDefault("PAYMENTS_LEDGER", "ledger"));
    var options = WorkflowServiceStubsOptions.newBuilder().setTarget(address).build();
    var client = WorkflowClient.newInstance(WorkflowServiceStubs.newServiceStubs(options));
    var factory = WorkerFactory.newInstance(client);
    var worker = factory.newWorker("payments");
    worker.registerActivitiesImplementations(new RefundsImpl(new Ledger(ledger)));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(factory)));
    factory.start();
  }

  /** Let running activities end. */
  private static void stop(WorkerFactory factory) {
    factory.shutdown();
    factory.awaitTermination(10, TimeUnit.SECONDS);
  }
}
