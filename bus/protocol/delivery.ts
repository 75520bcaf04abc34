/** Messages to the sender of one tenant's webhooks to one endpoint. */
export interface DeliveryMessages {
  /** Hints that a delivery is due, now or soon. The outbox is authoritative; a periodic check covers lost hints. */
  wake: { body: Record<string, never> };
}
