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

  /** What `promise` comes to; null as soon as the switch is thrown. */
  orStopped<T>(promise: Promise<T>): Promise<T | null> {
    return new Promise((resolve, reject) => {
      const stopListening = this.onCancel(() => resolve(null));
      const settle = (done: () => void): void => {
        stopListening();
        done();
      };
      promise.then(
        (value) => settle(() => resolve(value)),
        (error: unknown) => settle(() => reject(error)),
      );
    });
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
