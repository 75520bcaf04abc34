import assert from "node:assert/strict";
import type { TestServer } from "./server.ts";

/** The stock before the purchases, and the database with their orders. */
interface Sold {
  readonly server: TestServer;
  readonly key: string;
  /** Units that were in stock. */
  readonly units: number;
  rows(query: string): Promise<readonly Record<string, unknown>[]>;
}

/**
 * Asserts that each purchase has one paid order with one payment event, one attribution and an empty cart, that no other order is
 * payable, and that the orders beyond the stock are marked.
 */
export async function soldOnce(
  { orders, carts }: { readonly orders: readonly { readonly order: string }[]; readonly carts: readonly unknown[][] },
  { server, key, units, rows }: Sold,
): Promise<void> {
  const bought = orders.map(({ order }) => order).toSorted();
  const stored = await rows("SELECT id, status, oversold, payment_ref, session_id FROM commerce_orders ORDER BY id");
  const paid = stored.filter(({ status }) => status === "paid");
  const events = await rows("SELECT order_id FROM commerce_payment_events ORDER BY order_id");
  const attributed = await rows("SELECT order_id FROM commerce_attribution ORDER BY order_id");
  const { json: catalog } = await server.get("/brands/lumen/catalog", { key });
  const audited = await audit(server, key);

  assert.deepEqual(
    paid.map(({ id }) => id),
    bought,
  );
  assert.equal(new Set(paid.map(({ payment_ref }) => payment_ref)).size, bought.length);
  assert.equal(paid.filter(({ oversold }) => Number(oversold) === 1).length, bought.length - units);
  assert.deepEqual(
    stored.filter(({ status }) => status !== "paid" && status !== "cancelled"),
    [],
  );
  for (const [name, found] of Object.entries({ events, attributed }))
    assert.deepEqual(
      found.map(({ order_id }) => order_id),
      bought,
      name,
    );
  assert.equal(catalog.products[0].inventory, 0);
  assert.deepEqual(
    carts.filter((items) => items.length > 0),
    [],
  );
  const counted = audited.filter(({ status }) => status !== "cancelled");
  assert.deepEqual(new Set(counted.map(({ status }) => status)), new Set(["paid"]));
  assert.deepEqual(counted.map(({ payload }) => payload.order_id).toSorted(), bought);
}

interface AuditRow {
  readonly status: string;
  readonly payload: { readonly order_id: string };
}

/** Returns all audit rows about orders. */
async function audit(server: TestServer, key: string): Promise<AuditRow[]> {
  const rows: AuditRow[] = [];
  for (let cursor = ""; ; ) {
    const { json } = await server.get(`/audit?event_type=commerce_order&limit=200${cursor}`, { key });
    rows.push(...json.items);
    if (json.next_cursor === null) return rows;
    cursor = `&cursor=${encodeURIComponent(json.next_cursor)}`;
  }
}
