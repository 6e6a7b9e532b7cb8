/** The payload codec of workers with `--encryption`: AES-256-GCM, of payloads that may be compressed. */

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { inflateSync } from 'node:zlib';
import type { DataConverter } from '@temporalio/client';
import proto from '@temporalio/proto';

type PayloadCodec = NonNullable<DataConverter['payloadCodecs']>[number];
type Payload = Awaited<ReturnType<PayloadCodec['decode']>>[number];

const { Payload: PayloadMessage } = proto.temporal.api.common.v1;
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

const metadata = (payload: Payload, name: string) =>
  Buffer.from(payload.metadata?.[name] ?? '').toString();

/** The codec of keys of 32 bytes, each after its id: the first one encrypts. */
export function encryptionCodec(keys: ReadonlyArray<readonly [string, Buffer]>): PayloadCodec {
  const [first] = keys;
  if (first === undefined) throw new TypeError('there is no key');
  const [id, key] = first;
  const keyOf = new Map(keys);

  function encrypted(payload: Payload): Payload {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, key, nonce);
    const content = cipher.update(PayloadMessage.encode(payload).finish());
    return {
      metadata: { encoding: Buffer.from('binary/encrypted'), 'encryption-key-id': Buffer.from(id) },
      data: Buffer.concat([nonce, content, cipher.final(), cipher.getAuthTag()]),
    };
  }

  function decrypted(payload: Payload): Payload {
    if (metadata(payload, 'encoding') !== 'binary/encrypted') return payload;
    const used = metadata(payload, 'encryption-key-id');
    const data = Buffer.from(payload.data ?? '');
    const decipher = createDecipheriv(
      CIPHER,
      keyOf.get(used) ?? raise(`the key ${used} is missing`),
      data.subarray(0, NONCE_BYTES),
      { authTagLength: TAG_BYTES },
    ).setAuthTag(data.subarray(-TAG_BYTES));
    const content = decipher.update(data.subarray(NONCE_BYTES, -TAG_BYTES));
    const inner = PayloadMessage.decode(Buffer.concat([content, decipher.final()]));
    return metadata(inner, 'encoding') === 'binary/zlib'
      ? PayloadMessage.decode(inflateSync(inner.data))
      : inner;
  }

  return {
    encode: async (payloads) => payloads.map(encrypted),
    decode: async (payloads) => payloads.map(decrypted),
  };
}

function raise(message: string): never {
  throw new Error(message);
}
