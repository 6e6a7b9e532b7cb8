/** The payments team's worker: their activities, on their task queue. */

import { NativeConnection, Worker } from '@temporalio/worker';
import * as activities from './activities.js';

const connection = await NativeConnection.connect({
  address: process.env['TEMPORAL_ADDRESS'] ?? '127.0.0.1:7233',
});
const worker = await Worker.create({ connection, taskQueue: 'payments', activities });
await worker.run();
await connection.close();
