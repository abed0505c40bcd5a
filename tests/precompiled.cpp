// The source for which catch.h is compiled once for all test programs.
#include "tests/catch.h"
