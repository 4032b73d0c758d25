// Package witness runs pipelines of real processes whose stages write down what they
// emit and what they are given, before it is done, to files that outlive them; and then
// holds each outlet to what is promised: what may be lost, what may come twice, in which
// order, and what is to be reported. The processes are the calling program itself, which
// calls [Child] first.
package witness
