// Package authz decides who may do what, by rules: values in, a decision out.
//
// Without rules everybody may do everything. With the first rule, what no rule allows
// is forbidden; no rule takes anything back, so their order does not matter.
package authz
