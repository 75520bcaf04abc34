/** A certificate for `model.test` that signs itself, good for a hundred years, and its key. They are for the tests alone and protect nothing. */
export const modelTestCertificate = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgJAq9ollfEyKgZJJT
ybK/NxGfiFuxcRNPrBaD0XZ9lnyhRANCAATYPOjlbBaTo3DozpY418oJn6RcNHuV
Reo1vFDBqTKZwIZVZPuMzFjHA909dqRxubriftlSnqpTNOzXDwUAO+Yo
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBmDCCAT6gAwIBAgIUJihCiyWq07PdKFHJoqtqVBz+gP4wCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKbW9kZWwudGVzdDAgFw0yNjExMjQwNjM2MzhaGA8yMTI2MTAz
MTA2MzYzOFowFTETMBEGA1UEAwwKbW9kZWwudGVzdDBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABNg86OVsFpOjcOjOljjXygmfpFw0e5VF6jW8UMGpMpnAhlVk+4zM
WMcD3T12pHG5uuJ+2VKeqlM07NcPBQA75iijajBoMB0GA1UdDgQWBBRfvh0fcLHw
OVKk/SzQD9g8JHpzdDAfBgNVHSMEGDAWgBRfvh0fcLHwOVKk/SzQD9g8JHpzdDAV
BgNVHREEDjAMggptb2RlbC50ZXN0MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0E
AwIDSAAwRQIgKNsQJfBKkEBEuLUGbIpTHwsUEUkFAsf0A+R7ka4ihbECIQCMe8wk
CWQn79CJ8Z4dMTJ5IwmeibDcnXf/GY6pJF/aSQ==
-----END CERTIFICATE-----`,
} as const;
