/** The ledger: a file for each payment, named by its key, which is there whole or not at all. */

import { createHash, randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

export interface Payment {
  key: string;
  refund_id: string;
  order_id: string;
  amount: number;
  booked_at: string;
}

const FOLDER = process.env['PAYMENTS_LEDGER'] ?? 'ledger';

/** Book a refund under a key. A key that is booked stays so, and its payment is what comes back. */
export async function book(key: string, order_id: string, amount: number): Promise<Payment> {
  await mkdir(FOLDER, { recursive: true });
  const place = join(FOLDER, `${createHash('sha256').update(key).digest('hex')}.json`);
  const refund_id = `R-${randomUUID()}`;
  const booked_at = new Date().toISOString();
  await claim(place, JSON.stringify({ key, refund_id, order_id, amount, booked_at }));
  return JSON.parse(await readFile(place, 'utf8'));
}

/** Put a file in its place, unless one is there. `link` is the one step that decides. */
async function claim(place: string, text: string): Promise<void> {
  const draft = `${place}.${randomUUID()}.draft`;
  await writeToDisk(draft, text);
  try {
    await link(draft, place);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(draft);
  }
  await sync(FOLDER);
}

async function writeToDisk(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx');
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A new name in a folder outlasts a power cut once the folder itself is on the disk. */
async function sync(folder: string): Promise<void> {
  const file = await open(folder, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
