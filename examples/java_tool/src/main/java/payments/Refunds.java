package payments;

import io.temporal.activity.ActivityInterface;

/** The activities of the payments team. */
@ActivityInterface
public interface Refunds {
  Refund refundOrder(Refund.Request request);
}
