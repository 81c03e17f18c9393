
BxJ*Ot™¾ã-Rwœ