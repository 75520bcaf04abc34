/** A certificate for `model.test` and `push.test` that signs itself, good for a hundred years, and its key. They are for the tests alone and protect nothing. */
export const modelTestCertificate = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgJAq9ollfEyKgZJJT
ybK/NxGfiFuxcRNPrBaD0XZ9lnyhRANCAATYPOjlbBaTo3DozpY418oJn6RcNHuV
Reo1vFDBqTKZwIZVZPuMzFjHA909dqRxubriftlSnqpTNOzXDwUAO+Yo
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBozCCAUmgAwIBAgIULLzbVdc0A5JJ7AFIAIdm3sbLYXowCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKbW9kZWwudGVzdDAgFw0yNjExMjYyMTEwNDNaGA8yMTI2MTEw
MjIxMTA0M1owFTETMBEGA1UEAwwKbW9kZWwudGVzdDBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABNg86OVsFpOjcOjOljjXygmfpFw0e5VF6jW8UMGpMpnAhlVk+4zM
WMcD3T12pHG5uuJ+2VKeqlM07NcPBQA75iijdTBzMB0GA1UdDgQWBBRfvh0fcLHw
OVKk/SzQD9g8JHpzdDAfBgNVHSMEGDAWgBRfvh0fcLHwOVKk/SzQD9g8JHpzdDAP
BgNVHRMBAf8EBTADAQH/MCAGA1UdEQQZMBeCCm1vZGVsLnRlc3SCCXB1c2gudGVz
dDAKBggqhkjOPQQDAgNIADBFAiEAxWKPtsm4Rm/wavzl9H2ppOxgOH51vw9zXNAE
9Sm/v5wCIHi/JPvl0yaIrDPuuofLvTCfzjTzJY9LB/aAYbq5VDZk
-----END CERTIFICATE-----`,
} as const;
