/** What the payments team can do. It knows Temporal, and nothing of who asks for it. */

import { ApplicationFailure, activityInfo } from '@temporalio/activity';
import { book } from './ledger.js';

interface Order {
  order_id: string;
  item: string;
  paid: number;
}

interface RefundRequest {
  order_id: string;
  amount: number;
}

interface Refund extends RefundRequest {
  refund_id: string;
}

const ORDERS: readonly Order[] = [
  { order_id: '1042', item: 'Espresso machine Classico', paid: 249 },
  { order_id: '1057', item: 'Grinder Uno', paid: 89.5 },
];

export async function FindOrder({ order_id }: { order_id: string }): Promise<Order> {
  const order = ORDERS.find((order) => order.order_id === order_id);
  if (!order) throw refusal(`There is no order ${order_id}.`);
  return order;
}

export async function RefundOrder({ order_id, amount }: RefundRequest): Promise<Refund> {
  const { paid } = await FindOrder({ order_id });
  if (amount > paid) throw refusal(`Only ${paid} was paid for order ${order_id}.`);
  const payment = await book(idempotencyKey(), order_id, amount);
  if (payment.order_id !== order_id || payment.amount !== amount) {
    throw refusal(`Another refund was booked under this key: ${payment.refund_id}.`);
  }
  return { refund_id: payment.refund_id, order_id, amount };
}

/** The same through every retry, on every worker, after every crash. */
function idempotencyKey(): string {
  const { workflowExecution, activityId } = activityInfo();
  return [workflowExecution?.workflowId, activityId].join('/');
}

/** Another attempt would end the same. */
function refusal(message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, 'Refused');
}
