// What a test program's main runs: the cases that its arguments name, or all.
#pragma once

int run_test_cases(int argc, char* argv[]);
