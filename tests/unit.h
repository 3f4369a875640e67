/* tests/unit.h - cmocka and the headers it needs before it. */
#ifndef FT_TESTS_UNIT_H
#define FT_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
