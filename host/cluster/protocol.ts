import { protocolVersion, speaksWith } from "../../bus/envelope.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { HostRow } from "../../storage/tables/hosts.ts";

/** Returns the version of the protocol between hosts that this one speaks. */
export function protocolOf({ testProtocolVersion }: Pick<Settings, "testProtocolVersion">): number {
  return testProtocolVersion === 0 ? protocolVersion : testProtocolVersion;
}

/** Returns why a host with this protocol must not join others; null if it may. */
export function refusalOfProtocol(own: number, others: readonly HostRow[]): string | null {
  const stranger = others.find(({ card }) => !speaksWith(own, card.protocol));
  if (stranger === undefined) return null;
  const { name, version, protocol } = stranger.card;
  return `the host ${name} runs svc ${version}, which speaks version ${protocol} of the protocol between hosts, and this one speaks ${own}: update to a release between the two first, one host after the other`;
}
