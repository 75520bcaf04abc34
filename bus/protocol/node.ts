/** A node itself, as an actor that lives on it: what concerns its whole thread. */
export interface NodeMessages {
  /** A tenant's manifest has changed: what is known of it is read again. */
  forgetManifest: { body: { tenant_id: string; name: string }; reply: Record<string, never> };
}
