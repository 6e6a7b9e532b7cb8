package payments;

import com.fasterxml.jackson.annotation.JsonProperty;

/** What the customer gets back. */
public record Refund(
    @JsonProperty("refund_id") String refundId,
    @JsonProperty("order_id") String orderId,
    double amount) {

  public record Request(@JsonProperty("order_id") String orderId, double amount) {}
}
