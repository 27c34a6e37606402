#include <stdint.h>

/* Burns its time in one chain of calls: what each sample's stack is, is known. A guest has no compiler. */
#define NOT_INLINED __attribute__((noinline, noclone))

volatile uint64_t sink;
NOT_INLINED int leaf(int n) { for (int i = 0; i < n; i++) sink += i; return n; }
NOT_INLINED int middle(int n) { return leaf(n) + 1; }
NOT_INLINED int outer(int n) { return middle(n) + 1; }

int main(void)
{
	int sum = 0;

	for (int i = 0; i < 60; i++)
		sum += outer(4000000);
	return sum == 0;
}
