package payments;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Instant;
import java.util.HexFormat;
import java.util.UUID;

/** A file for each payment, named by its key. */
record Ledger(Path folder) {
  private static final ObjectMapper JSON = new ObjectMapper();

  record Payment(
      String key,
      @JsonProperty("refund_id") String refundId,
      @JsonProperty("order_id") String orderId,
      double amount,
      @JsonProperty("booked_at") String bookedAt) {}

  /** Book a refund under a key. A key that is booked already keeps its payment: it is returned. */
  Payment book(String key, Refund.Request request) {
    var refundId = "R-" + UUID.randomUUID();
    var now = Instant.now().toString();
    try {
      Files.createDirectories(folder);
      var place = folder.resolve(digest(key) + ".json");
      claim(place, new Payment(key, refundId, request.orderId(), request.amount(), now));
      return JSON.readValue(place.toFile(), Payment.class);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /**
   * Write a payment to its place, unless one is there. The link is the one step that decides: a
   * file is there whole or not at all.
   */
  private void claim(Path place, Payment payment) throws IOException {
    var draft = Files.createTempFile(folder, "draft-", null);
    try {
      Files.write(draft, JSON.writeValueAsBytes(payment));
      sync(draft);
      Files.createLink(place, draft);
    } catch (FileAlreadyExistsException booked) {
      // An earlier attempt booked it.
    } finally {
      Files.delete(draft);
    }
    sync(folder);
  }

  /** Content of a file, or names in a folder, that survive a power cut. */
  private static void sync(Path path) throws IOException {
    try (var channel = FileChannel.open(path, StandardOpenOption.READ)) {
      channel.force(true);
    }
  }

  private static String digest(String key) {
    try {
      var sha256 = MessageDigest.getInstance("SHA-256");
      return HexFormat.of().formatHex(sha256.digest(key.getBytes(StandardCharsets.UTF_8)));
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error); // every Java has SHA-256
    }
  }
}
