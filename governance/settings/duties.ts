/** The duties that a process can have; host/duties.ts defines each. */
export const allDuties = ["api", "worker", "scheduler"] as const;

/** A duty of a process. */
export type Duty = (typeof allDuties)[number];

/** Reads an item of SVC_DUTIES. */
export function readDuty(item: string): Duty {
  const duty = allDuties.find((known) => known === item.toLowerCase());
  if (duty === undefined) throw new Error(`must list some of ${allDuties.join(", ")}`);
  return duty;
}

/** True if a process with these settings has the duty. */
export function holds({ duties }: { readonly duties: readonly string[] }, duty: Duty): boolean {
  return duties.includes(duty);
}
