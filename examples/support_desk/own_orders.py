"""A tool for customers themselves: it reads their own orders, and nobody else's.

Whose orders these are is no argument, which a model could choose: it is the principal of the run,
here a customer by e-mail address. `CallContext` has it, as the run's request names it.
"""

from examples.support_desk import tools
from holdfast import CallContext, tool


@tool(label="Look up an order of your own", activity={"startToCloseTimeout": "5s"})
def look_up_own_order(order_id: tools.OrderId, context: CallContext) -> tools.Order:
    """Read an order of the customer: its items, its shipments, what was refunded of it."""
    customer = context.principal
    order = tools.look_up_order(tools.LookUpOrder(order_id=order_id))
    if customer is None or customer.id != order.email:
        # As of an order that does not exist: a customer learns nothing of others.
        raise tools.no_order(order_id)
    return order
