interface Target {
  readonly host: string | null;
  readonly cidr: string | null;
  readonly port: number;
}

/** The address of the metadata services of AWS and Google, which give an instance the credentials of its role. */
export const metadataHost = "169.254.169.254";

/** True if SVC_EGRESS_PRIVATE names the metadata service exactly. */
export function namesMetadata({ egressPrivate }: { readonly egressPrivate: readonly Target[] }): boolean {
  return egressPrivate.some(
    ({ host, cidr, port }) => port === 80 && (host === metadataHost || cidr === `${metadataHost}/32`),
  );
}
