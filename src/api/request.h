/* api/request.h - requests that outlive the call that made them. */
#ifndef FT_API_REQUEST_H
#define FT_API_REQUEST_H

#include "base/err.h"
#include "foretoken.h"

/* Everything that r points to is copied. */
void ft_request_copy(ft_request *out, const ft_request *r);
void ft_request_release(ft_request *r);

#endif
