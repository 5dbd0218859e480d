// Package modelcheck lets spin check the models of the protocol in docs/model:
// each as it is, where no error may be found, and with one rule broken at a
// time, where spin must find what the rule prevents.
//
// It needs spin and a C compiler. Where they are missing the test is skipped,
// unless BELFRY_TEST_REQUIRE_SPIN=1 asks for them. The checks of every run take
// a few seconds each; make model adds the large ones.
package modelcheck
