package payments;

import io.temporal.activity.Activity;
import io.temporal.failure.ApplicationFailure;
import java.util.Map;

final class RefundsImpl implements Refunds {
  /** What was paid for each order, in euros. */
  private static final Map<String, Double> PAID = Map.of("1042", 249.0, "1057", 89.5);

  private final Ledger ledger;

  RefundsImpl(Ledger ledger) {
    this.ledger = ledger;
  }

  @Override
  public Refund refundOrder(Refund.Request request) {
    var paid = PAID.get(request.orderId());
    if (paid == null) {
      throw refused("There is no order " + request.orderId() + ".");
    }
    if (request.amount() > paid) {
      throw refused("Only " + paid + " was paid for order " + request.orderId() + ".");
    }
    var payment = ledger.book(idempotencyKey(), request);
    var refund = new Refund(payment.refundId(), payment.orderId(), payment.amount());
    if (!request.equals(new Refund.Request(refund.orderId(), refund.amount()))) {
      throw refused("Another refund was booked under this key: " + refund.refundId() + ".");
    }
    return refund;
  }

  /** The same for every retry, on every worker, after every crash. */
  private static String idempotencyKey() {
    var info = Activity.getExecutionContext().getInfo();
    return info.getWorkflowId() + "/" + info.getActivityId();
  }

  /** An error that another attempt would end with as well. */
  private static ApplicationFailure refused(String message) {
    return ApplicationFailure.newNonRetryableFailure(message, "Refused");
  }
}
