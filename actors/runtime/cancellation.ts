/** A switch that is thrown once. Cheaper than an AbortSignal, of which every turn would need several. */
export class Cancellation {
  #cancelled = false;
  #listeners: (() => void)[] | null = null;

  get cancelled(): boolean {
    return this.#cancelled;
  }

  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    const listeners = this.#listeners;
    this.#listeners = null;
    for (const listener of listeners ?? []) listener();
  }

  /** Calls `listener` when the switch is thrown, at once when it was. Answers how to stop listening. */
  onCancel(listener: () => void): () => void {
    if (this.#cancelled) {
      listener();
      return () => {};
    }
    this.#listeners ??= [];
    this.#listeners.push(listener);
    return () => {
      this.#listeners = this.#listeners?.filter((other) => other !== listener) ?? null;
    };
  }
}
