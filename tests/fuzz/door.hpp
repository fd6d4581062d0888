// The name of libFuzzer's door to a subject: its own in a program of several doors (corpus_test.cpp).
#pragma once

#if defined(NVM_FUZZERS)
#define NVM_FUZZER(subject) fuzz_##subject
#else
#define NVM_FUZZER(subject) LLVMFuzzerTestOneInput
#endif
