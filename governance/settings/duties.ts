/** What a process can be there for. What each means is in host/duties.ts. */
export const allDuties = ["api", "worker", "scheduler"] as const;

/** One of the things that a process can be there for. */
export type Duty = (typeof allDuties)[number];

/** An item of SVC_DUTIES. */
export function readDuty(item: string): Duty {
  const duty = allDuties.find((known) => known === item.toLowerCase());
  if (duty === undefined) throw new Error(`must list some of ${allDuties.join(", ")}`);
  return duty;
}

/** Whether a process with these settings has a duty. */
export function holds({ duties }: { readonly duties: readonly string[] }, duty: Duty): boolean {
  return duties.includes(duty);
}
