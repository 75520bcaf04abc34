/** What sends webhooks of one tenant to one endpoint. */
export interface DeliveryMessages {
  /** Something is due, or will soon be. A hint: what it goes by is the outbox, and a hint that is lost is made up for. */
  wake: { body: Record<string, never> };
}
